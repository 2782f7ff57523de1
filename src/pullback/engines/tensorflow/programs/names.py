"""Names of traced functions, as the user knows them."""

import re

_NAME = re.compile(r"^(?:__inference_|__forward_|__backward_)?(.*?)(?:_\d+)?$")
# Functions that TensorFlow puts around those of a file.
AROUND_LOADED = frozenset({"restored_function_body", "signature_wrapper"})


def plain_name(name: str) -> str:
    """The name of a traced function without what TensorFlow puts around it."""
    found = _NAME.match(name) if name.startswith("__") else None
    return found.group(1) if found and found.group(1) else name
