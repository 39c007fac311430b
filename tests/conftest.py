"""Property tests have no deadline: a busy machine is not a bug. In CI they try the same examples every time, so that a
red build means a change and not a draw; elsewhere each run draws new ones.
"""

import gc
import os

from hypothesis import settings

settings.register_profile("patient", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("patient")


def pytest_collection_finish() -> None:
    """Keep the garbage collector away from what was imported and collected: it stays until the end of the run."""
    gc.collect()
    gc.freeze()
