# The beginning of what lays out a pod's network: POD.
mount --bind "$1/resolv.conf" /etc/resolv.conf
# virt-handler's device plugin gives a pod this device for whoever is in it.
mknod -m 666 /dev/net/anybodys-tun c 10 200
mount --bind /dev/net/anybodys-tun /dev/net/tun
