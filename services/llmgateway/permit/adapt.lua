-- The adaptive ceiling: one factor on all limits of a group, moved by what the provider answers. It falls by multiplication
-- when the provider says that we ask too fast, and grows by addition: one permit per ceiling's worth of answers. Near the
-- factor at which a limit was hit last it grows much more slowly, and it goes on from there as fast as ever when nothing
-- happened.

local gentle, hard = 0.85, 0.5
-- An answer counts toward the round of its time; that share of limited ones makes the cut a hard one.
local many = 0.3
-- What was answered in a minute tells where the limit is if it is at least this part of what we allow ourselves.
local telling = 0.55
-- How near the last hit is near, and how much slower growth is there.
local near_from, near_to, near_slower = 0.9, 1.1, 8
-- Rates show too much only after a while. So they grow by the clock too: at most these parts of the limit in a minute.
local fast_growth, near_growth = 0.3, 0.01
-- How long to pause, at most, when one cut follows the other and nothing is answered any more.
local longest_pause = 5000

local function newborn()
  return {f = 1, hit = 0, cut = 0, grown = 0, blind = 0, ok = 0, bad = 0, was_ok = 0, was_bad = 0, judged = true}
end

-- Returns the number of permits that the factor leaves.
local function permits(a, unit) return math.max(1, math.floor(a.f * unit + 1e-6)) end

-- Notes how many answers were limited. The share is taken over this round and the one before: one ceiling's worth at least.
local function count(a, x)
  a.ok, a.bad = a.ok + x.ok, a.bad + x.bad
  if a.ok + a.bad >= permits(a, x.unit) then
    a.was_ok, a.was_bad, a.ok, a.bad = a.ok, a.bad, 0, 0
  end
end

local function mostly_limited(a, x)
  local bad = a.bad + a.was_bad
  local all = bad + a.ok + a.was_ok
  return all >= math.max(4, permits(a, x.unit) / 4) and bad > many * all
end

local function forget_round(a) a.ok, a.bad, a.was_ok, a.was_bad, a.judged = 0, 0, 0, 0, true end

-- Lowers the factor, and remembers where it was. What the provider has answered in the last minute tells more than that, if it
-- is not much less: then it is what we were limited to. If nothing was answered since the last cut, the provider is not merely
-- slower than we: what it grants in a minute is used up. Then what it has answered in the last minute is as far as the factor
-- falls, and a pause saves requests that would be in vain. Returns that pause.
local function cut(a, x)
  local before, by = a.f, gentle
  if x.slow or mostly_limited(a, x) then by = hard end
  local f, pause = before * by, 0
  local measured = x.rated and x.delivered >= telling * before
  if a.blind > 0 then
    if x.rated then f = math.max(f, math.min(before, x.delivered)) end
    if measured then a.hit = math.min(a.hit, x.delivered) end
    pause = math.min(longest_pause, 125 * 2 ^ math.min(a.blind, 6))
  elseif measured and x.whole then
    a.hit, f = x.delivered, math.min(f, 0.95 * x.delivered)
  else
    a.hit = before
  end
  a.f, a.cut, a.blind, a.judged = math.max(x.least, f), x.now, a.blind + 1, false
  if by == hard then forget_round(a) end
  return pause
end

-- The rest of the answers to what was sent before the cut may show that it was too gentle.
local function deepen(a, x)
  if a.ok + a.bad == 0 then a.judged = true end
  if not mostly_limited(a, x) then return end
  a.f = math.max(x.least, a.f * hard / gentle)
  forget_round(a)
end

-- Raises the factor by what was answered to requests sent after the last cut.
local function grow(a, x)
  local step = x.fresh / (x.unit * math.max(1, a.f * x.unit))
  local near = a.hit > 0 and a.f + step > near_from * a.hit and a.f < near_to * a.hit
  if near then step = step / near_slower end
  if x.rated then
    local most = fast_growth
    if near then most = near_growth * a.hit end
    step = math.min(step, most * math.min(1000, x.now - a.grown) / minute)
  end
  a.f, a.grown = math.min(1, a.f + step), x.now
  if a.f >= near_to * a.hit then a.hit = 0 end
end

-- Takes over what was answered since the last time. X has: now; ok and bad, the answers that were not limited and those that
-- were; fresh, those of ok that were sent after the last cut; counts, if one of bad was too; slow, if the provider said so; unit, the permits or calls per second of the configuration; least, the least factor; rated, if there are limits per
-- minute; delivered, the share of these that was used in the last minute, and whole, if that minute was
-- watched from its beginning; busy, if there is use for a higher ceiling. Returns
-- a pause in milliseconds.
local function learn(a, x)
  if x.ok + x.bad == 0 then return 0 end
  if x.fresh > 0 then a.blind = 0 end
  count(a, x)
  if x.bad > 0 and x.counts then return cut(a, x) end
  if x.bad > 0 and not a.judged then deepen(a, x) end
  if x.fresh > 0 and x.busy and a.f < 1 then grow(a, x) end
  return 0
end
