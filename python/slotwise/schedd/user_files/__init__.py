"""Files that users name: opened with the rights of the job's owner, without blocking and without magic links."""
