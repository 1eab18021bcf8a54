# First step of a pod's network: resolv.conf and a tun device. Argument: POD.
mount --bind "$1/resolv.conf" /etc/resolv.conf
# virt-handler's device plugin gives a pod this device for whoever is in it.
mknod -m 666 /dev/net/anybodys-tun c 10 200
mount --bind /dev/net/anybodys-tun /dev/net/tun
