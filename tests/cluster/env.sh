# shellcheck shell=sh
# Sourced by the scripts beside it. Each setting may come from the environment.
here=$(cd "$(dirname "$0")" && pwd)
: "${CLUSTER_BIN:?a directory with etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kube-proxy, kubelet, kubectl, containerd, ctr, containerd-shim-runc-v2, runc and virtctl}"
: "${CLUSTER_DIR:?a directory for the state of the cluster, which is created}"
: "${CNI_BIN:=/usr/lib/cni}" # bridge, host-local, portmap, loopback
: "${NODE_NET:=10.89.0}"     # node N has NODE_NET.N; NODE_NET.254 is nobody
: "${POD_NET:=10.244}"       # node N's pods are in POD_NET.N.0/24
: "${SERVICE_CIDR:=10.96.0.0/16}"
: "${SERVICE_FIRST:=10.96.0.1}"
: "${REGISTRY_NAME:=registry.corp.example}"
# Kubernetes 1.34 and 1.35 have mutating policies as a beta, which is off.
: "${RUNTIME_CONFIG:=admissionregistration.k8s.io/v1beta1=true}"
: "${FEATURE_GATES:=MutatingAdmissionPolicy=true}"
PATH=$CLUSTER_BIN:$PATH:/usr/sbin:/sbin
KUBECONFIG=$CLUSTER_DIR/pki/admin.kubeconfig
export PATH KUBECONFIG

say() { printf '%s %s\n' "$(date +%T)" "$*" >&2; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

# Runs a command in node N: in its namespaces for mounts, processes and network.
in_node() { # N COMMAND...
    node_pid=$(cat "$CLUSTER_DIR/node$1/init.pid")
    shift
    nsenter --target "$node_pid" --mount --pid --net --wd=/ -- "$@"
}

# Starts a program of node N in the background; its output goes to nodeN/log/NAME.log.
daemon() { # N NAME COMMAND...
    daemon_node=$1 daemon_name=$2
    shift 2
    mkdir -p "$CLUSTER_DIR/node$daemon_node/log"
    node_pid=$(cat "$CLUSTER_DIR/node$daemon_node/init.pid")
    setsid nsenter --target "$node_pid" --mount --pid --net --wd=/ -- "$@" \
        >>"$CLUSTER_DIR/node$daemon_node/log/$daemon_name.log" 2>&1 </dev/null &
}

wait_for() { # SECONDS WHAT COMMAND...
    wait_seconds=$1 wait_what=$2
    shift 2
    wait_end=$(($(date +%s) + wait_seconds))
    until "$@" >/dev/null 2>&1; do
        [ "$(date +%s)" -lt "$wait_end" ] || die "$wait_what: not within $wait_seconds s"
        sleep 0.5
    done
}
