#!/bin/sh
# Process 1 of a pod, until it becomes the program that the pod runs. Called inside fresh mount, pid and network
# namespaces: POD UID PROGRAM ARGUMENT...
set -eu
pod=$1 user=$2
shift 2

mount --make-rprivate /
# A directory of the pod over one of this machine; what this machine lacks, no program here will miss.
over() { if [ -e "$2" ]; then mount --bind "$pod/$1" "$2"; fi; }
for mask in "$pod"/mask/*; do
    [ -e "$mask" ] || continue
    mount --bind "$mask" "$(readlink "$pod/masked/${mask##*/}")"
done

# A container's /dev: no /dev/kvm, which libvirt would probe endlessly where it exists without working.
mkdir -p "$pod/dev"
mount -t tmpfs -o mode=755 dev "$pod/dev"
mkdir "$pod/dev/pts" "$pod/dev/shm" "$pod/dev/net"
for device in null zero full random urandom tty net/tun; do
    [ -e "/dev/$device" ] || continue
    : >"$pod/dev/$device"
    mount --bind "/dev/$device" "$pod/dev/$device"
done
# As virt-handler hands it to a migration's target, for post-copy. The root of a user namespace may not make devices; then
# there is none.
if [ -e /dev/userfaultfd ] && [ ! -e "$pod/no-userfaultfd" ]; then
    # The two numbers are separate words.
    # shellcheck disable=SC2046
    mknod -m 666 "$pod/dev/userfaultfd" c $(stat -c '%Hr %Lr' /dev/userfaultfd) 2>/dev/null || :
fi
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts "$pod/dev/pts"
mount -t tmpfs -o mode=1777 shm "$pod/dev/shm"
ln -s pts/ptmx "$pod/dev/ptmx"
ln -s /proc/self/fd "$pod/dev/fd"
# Where the kubelet reads why a container has ended.
: >"$pod/dev/termination-log"
mount --bind "$pod/termination-log" "$pod/dev/termination-log"
mount --rbind "$pod/dev" /dev

over etc-libvirt /etc/libvirt
over var-lib-libvirt /var/lib/libvirt
over var-log-libvirt /var/log/libvirt
over var-cache-libvirt /var/cache/libvirt
over run /run
ip link set lo up
[ ! -e "$pod/stock_image_additions.sh" ] || sh -eu "$pod/stock_image_additions.sh" "$pod"
# What the pod's image has in /usr and this machine lacks.
[ ! -d "$pod/usr" ] || mount -t overlay usr -o "lowerdir=$pod/usr:/usr" /usr
# What virt-handler does to a pod's network.
[ ! -e "$pod/network.sh" ] || sh -eu "$pod/network.sh" "$pod"

export PATH="$pod/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" HOME=/
cd /
if [ "$user" = 0 ]; then exec "$@"; fi
export XDG_RUNTIME_DIR=/var/run XDG_CONFIG_HOME=/var/run/kubevirt-private XDG_CACHE_HOME=/var/run/kubevirt-private
# In a user namespace of its own it is that user already.
become="--reuid $user --regid $user --clear-groups"
[ "$(id -u)" != "$user" ] || become=''
# shellcheck disable=SC2086
exec setpriv $become --no-new-privs --bounding-set -all,+net_bind_service --inh-caps -all,+net_bind_service \
    --ambient-caps -all,+net_bind_service --pdeathsig KILL -- "$@"
