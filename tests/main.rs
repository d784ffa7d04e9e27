//! The tests of the shell: commands, contract, tidiness, and journeys through the real window.

mod bindings;
