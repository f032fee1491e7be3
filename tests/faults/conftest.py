"""The verbs are stopped at what they do with a plan; the same plan is made once."""

from tests.in_memory import tmp_path  # noqa: F401 - a fixture of all tests here
from tests.planned_once import plans_are_made_once  # noqa: F401 - a fixture of all tests here
