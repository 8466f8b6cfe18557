"""What the ranks run on: the cluster, the route between two ranks, the catalog of devices and links."""
