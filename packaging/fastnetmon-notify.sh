#!/bin/sh
# FastNetMon's word for psmc-coordinator: `notify_script_path = /usr/lib/psmc/fastnetmon-notify.sh` in fastnetmon.conf.
# Called with: ADDRESS DIRECTION PACKETS_PER_SECOND ACTION. The coordinator knows the service by its `addresses`. Where several
# coordinators run on this machine, PSMC_COORDINATOR_SOCKET names one.
#
# An alert counts for as long as FastNetMon runs and has not ended the ban: a FastNetMon that is stopped forgets its bans,
# and says nothing of them any more.
set -eu

# Some versions write addresses of IPv6 as networks of one address.
address=${1%/128} direction=$2 packets=$3 action=$4

# The FastNetMon that has called this, by whatever shells: nothing if there is none.
fastnetmon() {
    pid=$PPID
    while [ "$pid" -gt 0 ] && [ -r "/proc/$pid/comm" ]; do
        read -r name <"/proc/$pid/comm"
        case $name in
        fastnetmon*)
            echo "$pid"
            return
            ;;
        esac
        parent=0
        while read -r key value _; do
            [ "$key" != PPid: ] || parent=$value
        done <"/proc/$pid/status"
        pid=$parent
    done
}

# Ends what renews the alert, whether the coordinator can be reached or not: then it lapses.
end_renewal() {
    for process in /proc/[0-9]*; do
        case $(tr '\0' ' ' 2>/dev/null <"$process/cmdline" || true) in
        "psmc-coordinator $* "*"--while "*) kill "${process#/proc/}" 2>/dev/null || true ;;
        esac
    done
}

set -- alert "${address%/32}" --source fastnetmon --id "${address%/32}"
if [ -n "${PSMC_COORDINATOR_SOCKET:-}" ]; then
    set -- "$@" --socket "$PSMC_COORDINATOR_SOCKET"
fi

case $action in
ban)
    # What the service's own hosts send is no attack on it.
    if [ "$direction" = incoming ]; then
        set -- "$@" --kind rate --packets "$packets"
        pid=$(fastnetmon)
        if [ -n "$pid" ]; then
            # FastNetMon waits for whoever holds its pipes.
            setsid psmc-coordinator "$@" --while "$pid" </dev/null >/dev/null 2>&1 &
        else
            psmc-coordinator "$@" </dev/null || echo "psmc-coordinator does not take the alert" >&2
        fi
    fi
    # Details come on standard input, and FastNetMon waits until somebody has read them; it may be something else's, which
    # never ends.
    timeout 5 cat >/dev/null 2>&1 || true
    ;;
unban)
    end_renewal "$@"
    exec psmc-coordinator "$@" --clear </dev/null
    ;;
# More of an attack that is known already.
*) timeout 5 cat >/dev/null 2>&1 || true ;;
esac
