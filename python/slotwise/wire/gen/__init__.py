"""Generated from proto/slotwise/v1; do not edit."""
