"""An audit: the check over everything that a framework differentiates by itself."""

from pullback.audit.catalogue import Case as Case
from pullback.audit.catalogue import Catalogue as Catalogue
from pullback.audit.catalogue import NotCallable as NotCallable
