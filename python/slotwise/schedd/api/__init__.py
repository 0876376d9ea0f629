"""What users and tools ask of the schedd, as calls and answers. The edge: knows protobuf, decides nothing of jobs."""
