"""Examples run where only our wheel is installed."""

from tests.docs.wheel_environment import wheel

__all__ = ["wheel"]
