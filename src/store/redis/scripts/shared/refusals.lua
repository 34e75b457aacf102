-- Refusals are negative. Mirrored in reply.rs.
local NOT_FOUND, EXISTS, RESERVATION_LOST, NEVER_POPPED = -1, -2, -3, -4
local DUE_TOO_FAR, UNREADABLE = -7, -9
local FINISHED = -10
-- The reply is this number minus the code of the state that the job is in.
local WRONG_STATE = -20
