"""The GPUs of this host: which there are, what they can do, how busy they are.

``device`` and ``report`` decide what is reported of devices; ``simulated`` simulates some; ``nvidia``, ``amd`` and
``opencl`` query the drivers' libraries, which are loaded on demand and may be missing.
"""
