"""How sites work together: steps over (site, inbox), and the driver that runs them in a process."""

from cofill.protocol._driver import Federation, Step, run_steps

__all__ = ["Federation", "Step", "run_steps"]
