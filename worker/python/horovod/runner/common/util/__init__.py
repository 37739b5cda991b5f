"""What programs written for Horovod import from here. Horovod's own rendezvous is not needed: MPI does its work."""
