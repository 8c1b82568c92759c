#!/bin/sh
# How well the model of `qkv-bench -m processes` predicts networks: four network namespaces of this machine, each with a
# process, behind links of several rates and delays. The model is fitted to two processes; the ratios of three and four tell.
# All traffic stays between the namespaces, which are removed at the end.
#
#     tools/bench/networks.sh build/release/tools/qkv-bench           # toy
#     tools/bench/networks.sh build/release/tools/qkv-bench small 1gbit:0 1gbit:200us    # links RATE:DELAY
#
# Needs root, the commands ip and tc, and Open MPI. Where the kernel has no netem, links have rates (tbf), and those with a
# delay are left out.
set -eu
root=$(unset CDPATH && cd -- "$(dirname -- "$0")/../.." && pwd)
# shellcheck source=tools/help.sh
. "$root/tools/help.sh"
[ $# -ge 1 ] || { echo "Usage: tools/bench/networks.sh QKV_BENCH [WORKLOAD [RATE:DELAY...]]" >&2; exit 2; }
bench=$(realpath "$1")
workload=${2:-toy}
[ $# -gt 2 ] && shift 2 || set -- 100mbit:0 1gbit:0 1gbit:200us 10gbit:20us
hosts=4
longest=${LONGEST:-300} # seconds for each link
steps=${STEPS:-20} seconds=${SECONDS_EACH:-2}
prefix=qkv$$

skip() {
    echo "networks.sh: $1: nothing was measured" >&2
    exit 0
}
for command in ip tc mpirun; do
    command -v "$command" >/dev/null || skip "there is no command '$command'"
done
[ "$(id -u)" = 0 ] || skip "namespaces and links need root"
ip netns add "$prefix-hub" 2>/dev/null || skip "network namespaces are not permitted here"
work=$(mktemp -d)

cleanup() {
    for i in $(seq $hosts); do ip netns del "$prefix-$i" 2>/dev/null || true; done
    ip netns del "$prefix-hub" 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 2' INT TERM

# A bridge, to which each namespace has a link.
ip -n "$prefix-hub" link add name bridge0 type bridge
ip -n "$prefix-hub" link set bridge0 up
list=
for i in $(seq $hosts); do
    ip netns add "$prefix-$i"
    ip link add name link0 netns "$prefix-$i" type veth peer name "port$i" netns "$prefix-hub"
    ip -n "$prefix-hub" link set "port$i" master bridge0 up
    ip -n "$prefix-$i" link set lo up
    ip -n "$prefix-$i" address add "10.77.0.$i/24" dev link0
    ip -n "$prefix-$i" link set link0 up
    list=$list${list:+,}10.77.0.$i
done

# mpirun starts its daemon of each host with this command instead of ssh. Daemons that shared a folder for temporary files would
# overwrite each other's.
cat >"$work/agent" <<END
#!/bin/sh
host=\$1
shift
mkdir -p "$work/\$host"
exec ip netns exec "$prefix-\${host##*.}" env TMPDIR="$work/\$host" sh -c "\$*"
END
chmod +x "$work/agent"

# Gives all links a rate and a delay; false where the kernel cannot.
shape() {
    for i in $(seq $hosts); do
        tc -n "$prefix-$i" qdisc del dev link0 root 2>/dev/null || true
        if [ "$2" = 0 ]; then
            tc -n "$prefix-$i" qdisc add dev link0 root tbf rate "$1" burst 256kb latency 100ms 2>/dev/null || return 1
        else
            tc -n "$prefix-$i" qdisc add dev link0 root netem delay "$2" rate "$1" limit 100000 2>/dev/null || return 1
        fi
    done
}

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
launcher="ip netns exec $prefix-1 mpirun -q --bind-to none --host $list --mca plm_rsh_agent $work/agent \
--mca btl tcp,self --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24"
status=0
for link; do
    rate=${link%:*} delay=${link#*:}
    printf '\nLinks of %s, delay %s\n\n' "$rate" "$delay"
    if shape "$rate" "$delay"; then
        if timeout "$longest" "$bench" "$workload" -m processes --launcher "$launcher" --steps "$steps" \
            --seconds "$seconds" >"$work/table"; then
            sed '/^Modelled/,$d' "$work/table"
        else
            status=1
        fi
    else
        echo "The kernel has no netem for delays, or no tbf for rates; this link is left out."
    fi
done
exit $status
