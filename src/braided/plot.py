"""Pictures of a history; `braided.report.plot` holds them."""

from braided.report.plot import *  # noqa: F403
from braided.report.plot import __all__ as __all__
