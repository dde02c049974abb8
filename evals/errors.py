"""The error of a command that cannot run."""


class EvaluationError(Exception):
    """A command cannot run like this; the message says why, and what to do."""
