"""The user's own data: files, folders and arrays read into `Labelled`.

These modules load pandas and pyarrow, so `icelens.data` imports them when `read_labelled` or `from_arrays` is
first asked for.
"""
