#!/bin/sh
# FastNetMon's word for psmc-coordinator: `notify_script_path = /usr/lib/psmc/fastnetmon-notify.sh` in fastnetmon.conf.
# Called with: ADDRESS DIRECTION PACKETS_PER_SECOND ACTION, and details on standard input. The coordinator knows the service
# by its `addresses`. Where several coordinators run on this machine, PSMC_COORDINATOR_SOCKET names one.
set -eu

address=$1 direction=$2 packets=$3 action=$4

# Nobody else reads the details, and FastNetMon waits for somebody to.
cat >/dev/null 2>&1 || true

# What the service's own hosts send is no attack on it.
[ "$direction" = incoming ] || exit 0

set -- alert "$address" --source fastnetmon --id "$address" --kind rate
if [ -n "${PSMC_COORDINATOR_SOCKET:-}" ]; then
    set -- "$@" --socket "$PSMC_COORDINATOR_SOCKET"
fi
case $action in
ban) exec psmc-coordinator "$@" --packets "$packets" ;;
unban) exec psmc-coordinator "$@" --clear ;;
# Details of an attack that is known already.
*) exit 0 ;;
esac
