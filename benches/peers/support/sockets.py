"""Connections of this machine, as the kernel lists them."""


def connections_at(port):
    """Open connections that have this port at one end, and those that wait for their last packets (TIME_WAIT)."""
    wanted = f":{port:04X}"
    found = {ESTABLISHED: set(), TIME_WAIT: set()}
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(path, encoding="ascii") as lines:
                next(lines)
                for line in lines:
                    local, remote, state = line.split(maxsplit=4)[1:4]
                    if state not in found:
                        continue
                    # Both ends are here: the connection is told by the port that is not the wanted one.
                    if remote.endswith(wanted):
                        found[state].add(local.rpartition(":")[2])
                    elif local.endswith(wanted):
                        found[state].add(remote.rpartition(":")[2])
        except OSError:
            continue
    return len(found[ESTABLISHED]), len(found[TIME_WAIT])


# As /proc/net/tcp has them.
ESTABLISHED, TIME_WAIT = "01", "06"
