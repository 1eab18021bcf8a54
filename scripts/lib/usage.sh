# shellcheck shell=sh
# Sourced by the scripts of this project, before they change their directory. The comment at the top of a script is its help.

script=$(basename "$0")

usage_error() {
    printf '%s: %s; scripts/%s --help\n' "$script" "$*" "$script" >&2
    exit 2
}

# Answers -h and --help, and refuses other options and surplus arguments.
check_arguments() { # MOST [OPTIONS-OF-THE-SCRIPT] -- ARGUMENTS...
    most=$1 known=' '
    shift
    while [ "$1" != -- ]; do known="$known$1 "; shift; done
    shift
    for argument; do
        case $argument in
        -h | --help) sed -n '2,/^[^#]/s/^#\( \|$\)//p' "$0"; exit 0 ;;
        -*) case $known in *" $argument "*) ;; *) usage_error "unknown option $argument" ;; esac ;;
        esac
    done
    [ $# -le "$most" ] || { shift "$most"; usage_error "unknown argument '$1'"; }
}
