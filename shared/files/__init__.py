"""The interface of the files behind citations (`base`) and its adapters.

May import `chat` and `azure`.
"""
