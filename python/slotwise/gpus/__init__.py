"""GPUs of this host: which there are, what they can do, how busy they are.

``device`` and ``report`` decide what is said of devices; ``simulated`` pretends to have some; ``nvidia``, ``amd`` and
``opencl`` ask the drivers' libraries, which are loaded at the time of the question and need not be there.
"""
