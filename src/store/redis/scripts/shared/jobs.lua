-- Everything that scripts need to read, check and change single jobs.

--- @include "shared/policy"
--- @include "shared/rules"
--- @include "shared/ending"
--- @include "shared/attempts"
--- @include "shared/find"
--- @include "shared/gather"
--- @include "shared/history"
--- @include "shared/commit"
