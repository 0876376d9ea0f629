"""The rules of the negotiator once more, slowly: a second opinion for the engine."""
