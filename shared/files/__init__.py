"""The interface of the files that citations refer to (`base`) and its adapters.

May import `domain` and `azure`.
"""
