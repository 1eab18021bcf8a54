# shellcheck shell=sh
# Sourced by the scripts that build releases, in the root of the project. Sets BUILD_VERSION, which the programs print for
# --version: `0.1.0 (0123456789ab)`, with `-dirty` after the commit if the tree has changes that are not committed.

build_version() {
    sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"$/\1/p' Cargo.toml
}

# An archive of the sources has no commit.
if commit=$(git rev-parse --short=12 HEAD 2>/dev/null); then
    [ -z "$(git status --porcelain --untracked-files=no)" ] || commit=$commit-dirty
    BUILD_VERSION="$(build_version) ($commit)"
else
    BUILD_VERSION=$(build_version)
fi
export BUILD_VERSION
