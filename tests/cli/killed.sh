#!/bin/sh
# Commands killed with SIGKILL at a few random moments, with the results checked by tests/killed.sh (for more:
# tests/killed.sh 40).
exec sh tests/killed.sh "${N:-8}"
