#!/usr/bin/env bash
# Builds the images that submissions run in, and pushes them where a name is given.
#   dockerfiles/build.sh                              minimal, cpu and gpu, as localhost/hide-and-seek:<kind>
#   dockerfiles/build.sh cpu                          one of them
#   dockerfiles/build.sh --push ghcr.io/me/has cpu    and push it as ghcr.io/me/has:cpu
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

tensorflow=$(sed -n 's/^tensorflow-cpu==\([^;]*\).*/\1/p' "$here/../requirements.txt")
common="numpy scipy scikit-learn tqdm"
declare -A packages=(
    [minimal]=$common
    [cpu]="$common tensorflow-cpu==$tensorflow"
    [gpu]="$common tensorflow[and-cuda]==$tensorflow"
)

push=
if [[ ${1:-} == --push ]]; then
    push=${2:?--push needs the name to push to, such as ghcr.io/me/hide-and-seek}
    shift 2
fi
kinds=("$@")
[[ $# -gt 0 ]] || kinds=(minimal cpu gpu)
for kind in "${kinds[@]}"; do
    [[ -v packages[$kind] ]] || { echo "error: no image '$kind'; there are minimal, cpu and gpu" >&2; exit 2; }
done

# The engine is sent these two files and nothing else: the data lie in the same folder as the code.
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
cp "$here/Dockerfile" "$here/../requirements.txt" "$context"

for kind in "${kinds[@]}"; do
    docker build --build-arg "PACKAGES=${packages[$kind]}" --tag "localhost/hide-and-seek:$kind" "$context"
    if [[ -n $push ]]; then
        docker tag "localhost/hide-and-seek:$kind" "$push:$kind"
        docker push "$push:$kind"
    fi
done
