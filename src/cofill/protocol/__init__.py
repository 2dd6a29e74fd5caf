"""How sites work together: steps over (site, inbox), and the driver that runs them in a process."""

from cofill.protocol._driver import COORDINATOR, Federation, Step, run_steps

__all__ = ["COORDINATOR", "Federation", "Step", "run_steps"]
