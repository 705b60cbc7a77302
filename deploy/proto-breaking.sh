#!/usr/bin/env bash
# Compares the proto files with those of a git revision (main by default) and fails on a breaking change.
set -euo pipefail

base=${1:-origin/main}
git rev-parse -q --verify "$base^{commit}" >/dev/null || base=main
folder=$(mktemp -d)
trap 'git worktree remove --force "$folder/base" 2>/dev/null || true; rm -rf "$folder"' EXIT
git worktree add -q --detach "$folder/base" "$base"
cp -r third_party "$folder/base/"
buf breaking proto --against "$folder/base/proto"
