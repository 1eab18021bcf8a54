module example.com/team

go 1.24

require virt-hook/hooks v0.1.0

replace virt-hook/hooks => ./sdk
