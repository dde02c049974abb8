"""The indexes that passages are written to: the seam (`index_writer`) and its adapters."""
