"""Which versions of TensorFlow the engine works with; apart from `tf_private`, which others cannot even import."""

SUPPORTED = "2.16 to 2.22"
