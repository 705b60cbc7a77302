package simulated

import (
	"crypto/sha256"
	"strconv"
	"sync"
	"time"
)

// cacheMark asks to cache the dialogue up to a turn, for the time that it names; 0 asks for nothing.
type cacheMark time.Duration

const (
	cacheShort = cacheMark(5 * time.Minute)
	cacheLong  = cacheMark(time.Hour)
)

// A provider caches nothing shorter than minCached tokens; one that caches unasked does so in steps of cacheStep tokens.
const (
	minCached = 1024
	cacheStep = 128
)

// maxPrefixes bounds the prefixes that are remembered.
const maxPrefixes = 200_000

// cacheUse is what of a prompt came from the cache and went there, in tokens.
type cacheUse struct{ read, write5m, write1h int }

// cache remembers the beginnings of prompts by their digests. What is found stays for as long again.
type cache struct {
	mu      sync.Mutex
	on      bool
	expires map[[sha256.Size]byte]time.Time
}

// prefix is a beginning of a prompt.
type prefix struct {
	digest [sha256.Size]byte
	tokens int
	mark   cacheMark
}

func newCache(on bool) *cache { return &cache{on: on, expires: map[[sha256.Size]byte]time.Time{}} }

// turn switches the cache on or off. Off, it forgets.
func (c *cache) turn(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.on = on
	if !on {
		clear(c.expires)
	}
}

func (c *cache) isOn() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.on
}

// use looks a question up and keeps it. explicit is for formats that cache only what they are asked to, and say what they write.
func (c *cache) use(q *question, explicit bool, now time.Time) cacheUse {
	if !c.isOn() || q.promptTokens() < minCached {
		return cacheUse{}
	}
	prefixes := q.steps()
	if explicit {
		prefixes = q.marks()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var u cacheUse
	for _, p := range prefixes {
		if p.tokens >= minCached && now.Before(c.expires[p.digest]) {
			u.read = p.tokens
		}
	}
	written := u.read
	for _, p := range prefixes {
		if len(c.expires) >= maxPrefixes {
			clear(c.expires)
		}
		c.expires[p.digest] = now.Add(time.Duration(p.mark))
		if !explicit || p.tokens < minCached || p.tokens <= written {
			continue
		}
		if p.mark == cacheLong {
			u.write1h += p.tokens - written
		} else {
			u.write5m += p.tokens - written
		}
		written = p.tokens
	}
	return u
}

// steps returns the beginnings of a question at every cacheStep tokens.
func (q *question) steps() []prefix {
	whole := q.head()
	for _, t := range q.turns {
		whole += t.framed()
	}
	var all []prefix
	size := q.promptTokens()
	digest := sha256.Sum256([]byte(q.model))
	const step = cacheStep * bytesPerToken
	for n := 1; n*step <= len(whole); n++ {
		digest = sha256.Sum256(append(digest[:], whole[(n-1)*step:n*step]...))
		all = append(all, prefix{digest: digest, tokens: min(n*cacheStep, size), mark: cacheShort})
	}
	return all
}

// marks returns the beginnings of a question that end where the caller asked to cache.
func (q *question) marks() []prefix {
	var all []prefix
	digest := sha256.Sum256([]byte(q.model + q.head()))
	size := 0
	for _, t := range q.tools {
		size += tokens(t.name + t.description + string(t.schema))
	}
	for _, t := range q.turns {
		digest = sha256.Sum256(append(digest[:], t.framed()...))
		size += tokens(t.text) + t.images*imageTokens
		if t.cache != 0 {
			all = append(all, prefix{digest: digest, tokens: size, mark: t.cache})
		}
	}
	return all
}

// head is what stands before the dialogue: tools and the schema.
func (q *question) head() string {
	var head string
	for _, t := range q.tools {
		head += t.name + t.description + string(t.schema)
	}
	return head + string(q.schema)
}

// framed is a turn's text with no doubt about where it ends.
func (t turn) framed() string { return t.role + strconv.Itoa(t.images) + "\x00" + t.text + "\x00" }
