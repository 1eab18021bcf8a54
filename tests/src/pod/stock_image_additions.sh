# What KubeVirt's image has and this machine may lack, for its own launcher: a name for it in /usr/bin, where its monitor
# starts it, virtlogd's configuration, and virtqemud. Called in the pod, as root: POD
pod=$1
mkdir -p "$pod/usr/bin" "$pod/usr/sbin"
ln -sf "$pod/bin/virt-launcher" "$pod/usr/bin/virt-launcher"
: >"$pod/etc-libvirt/virtlogd.conf"
if [ ! -x /usr/sbin/virtqemud ]; then
    # libvirtd does the same; its socket has another name.
    printf '%s\n' '#!/bin/sh' 'ln -sf libvirt-sock /run/libvirt/virtqemud-sock' 'exec /usr/sbin/libvirtd "$@"' \
        >"$pod/usr/sbin/virtqemud"
    chmod 755 "$pod/usr/sbin/virtqemud"
fi
