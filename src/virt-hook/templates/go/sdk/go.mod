module virt-hook/hooks

go 1.24
