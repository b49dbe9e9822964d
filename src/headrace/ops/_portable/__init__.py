"""Array kernels: what ops are in terms of the array API standard alone, for devices other than hosts.

The kernels in the ops' own blocks are NumPy's: they work in place, by blocks and on several threads.  A device with
arrays of its own has another namespace (`run.devices.device`), to which these are given.  They are loaded where there
is such a device.
Source of what `xp` has: https://data-apis.org/array-api/2023.12
"""
