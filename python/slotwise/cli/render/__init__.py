"""How commands print ads: chosen attributes (:mod:`.autoformat`), whole ads (:mod:`.ads`), tables (:mod:`.table`)."""
