"""The app over a real language model: `make test-model`.

The model has 270 million parameters and its answers are poor, so no test depends on what it says:
only on what holds for every answer.
"""
