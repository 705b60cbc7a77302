package llmgateway

import (
	"errors"
	"fmt"
	"os"
	"time"

	"pawl.internal/services/internal/config"
	"pawl.internal/services/internal/pg"
	"pawl.internal/services/internal/redisconn"
	"pawl.internal/services/llmgateway/catalog"
)

// The bounds of Config.
const (
	leastLease = 500 * time.Millisecond
	mostLease  = 10 * time.Minute
	mostLanes  = 64
	// leastEconomy is the shortest time of the economy lane's loops.
	leastEconomy = 50 * time.Millisecond
	// mostBodyBytes bounds what is kept of a request, also in the call log.
	mostBodyBytes = 64 << 20
)

// Config is what the gateway is told at its start.
//
// Which models there are says the models file. Without one, an OpenAI key or address makes a provider `openai` and a route
// `default`; without these too, the simulated provider serves.
type Config struct {
	Database pg.Config        `kong:"-"`
	Redis    redisconn.Config `kong:"-"`

	ModelsFile string `help:"YAML file with providers, limits, routes and prices." env:"PAWL_MODELS_FILE" aliases:"models-file" type:"path"`

	OpenAIKey     config.Secret `name:"openai-api-key" help:"Without a models file: the key of the OpenAI-compatible provider." env:"OPENAI_API_KEY"`
	OpenAIBaseURL string        `name:"openai-base-url" help:"Without a models file: the provider's address." env:"PAWL_OPENAI_BASE_URL" placeholder:"https://api.openai.com/v1"`
	OpenAIModel   string        `name:"openai-model" help:"Without a models file: the model of the route default." env:"PAWL_OPENAI_MODEL" default:"gpt-4.1-mini"`
	OpenAIPrice   string        `name:"openai-price" help:"What that model costs, in US dollars per million tokens; or 'free'. Known for OpenAI's own models." env:"PAWL_OPENAI_PRICE" placeholder:"input=0.40,cached_input=0.10,output=1.60"`

	LogRequests string `help:"What the call log keeps of prompts: masked, with personal data and secrets masked; or none." enum:"masked,none" default:"masked"`

	Endpoint             string        `help:"Address of the OpenAI-compatible endpoint; empty for none." default:"127.0.0.1:8082" placeholder:"host:port"`
	EndpointMaxBodyBytes int64         `help:"Largest body of a request to the endpoint, in bytes." default:"20971520"`
	EndpointTimeout      time.Duration `help:"How long a request to the endpoint may wait for its permit and its answer, if it does not say." default:"10m"`

	Grace       time.Duration `help:"How long calls in flight may take to end when the gateway is told to stop; longer than the longest llm_timeout." default:"130s"`
	Lease       time.Duration `help:"How long a gateway may be silent before its calls in flight count as ambiguous." default:"10s"`
	PermitTTL   time.Duration `name:"permit-ttl" help:"How long the permits of a silent gateway are kept for it." default:"2s"`
	CommitLanes int           `help:"How many groups of calls commit at the same time." default:"2"`

	EconomyGather  time.Duration `help:"How long requests of batches are gathered for a provider's batch API, on routes with economy: batch_api." default:"1m"`
	EconomyLook    time.Duration `help:"How often a provider's batch is looked at." default:"30s"`
	EconomyLeast   time.Duration `help:"The least time in which a provider's batch is worth trying." default:"2h"`
	EconomyReserve time.Duration `help:"What is kept of the time until a run's deadline for asking in the usual way." default:"20m"`

	ControlConns int32 `help:"Connections of the pool for leases and sweeps." default:"3"`
}

// Validate returns all that is wrong with the configuration.
func (c Config) Validate() error {
	var problems []error
	if c.Lease < leastLease || c.Lease > mostLease {
		problems = append(problems, fmt.Errorf("lease must be %s to %s", leastLease, mostLease))
	}
	if c.Grace <= 0 {
		problems = append(problems, errors.New("grace must be above 0"))
	}
	if c.LogRequests != logMasked && c.LogRequests != logNone {
		problems = append(problems, fmt.Errorf("log-requests must be %s or %s", logMasked, logNone))
	}
	if c.PermitTTL < leastLease || c.PermitTTL > time.Minute {
		problems = append(problems, fmt.Errorf("permit-ttl must be %s to %s", leastLease, time.Minute))
	}
	problems = append(problems, c.validateEndpoint(), c.validateEconomy())
	if c.CommitLanes < 1 || c.CommitLanes > mostLanes {
		problems = append(problems, fmt.Errorf("commit-lanes must be 1 to %d", mostLanes))
	}
	// The stores are common to all services, which get them when the flags have been read.
	if !c.Database.URL.IsZero() && c.Database.MaxConns < int32(c.CommitLanes)+2 {
		problems = append(problems, errors.New("database-max-conns must be at least commit-lanes + 2"))
	}
	if c.ControlConns < 2 {
		problems = append(problems, errors.New("control-conns must be at least 2"))
	}
	return errors.Join(problems...)
}

func (c Config) validateEndpoint() error {
	if c.Endpoint == "" {
		return nil
	}
	var problems []error
	if c.EndpointMaxBodyBytes < 1<<10 || c.EndpointMaxBodyBytes > mostBodyBytes {
		problems = append(problems, fmt.Errorf("endpoint-max-body-bytes must be 1024 to %d", mostBodyBytes))
	}
	if c.EndpointTimeout < time.Second || c.EndpointTimeout > time.Hour {
		problems = append(problems, errors.New("endpoint-timeout must be 1s to 1h"))
	}
	return errors.Join(problems...)
}

func (c Config) validateEconomy() error {
	if min(c.EconomyGather, c.EconomyLook) >= leastEconomy && c.EconomyLeast > 0 && c.EconomyReserve >= 0 {
		return nil
	}
	return fmt.Errorf(
		"economy-gather and economy-look must be at least %s, economy-least above 0, and economy-reserve not below", leastEconomy,
	)
}

// catalog reads what models there are, from the models file if there is one.
func (c Config) catalog(now time.Time) (*catalog.Catalog, *catalog.Source, error) {
	if c.ModelsFile != "" {
		source := catalog.NewSource(c.ModelsFile, os.LookupEnv)
		known, err := source.Load(now)
		return known, source, err
	}
	known, err := c.withoutFile(now)
	return known, nil, err
}

func (c Config) withoutFile(now time.Time) (*catalog.Catalog, error) {
	if c.OpenAIBaseURL == "" && c.OpenAIKey.IsZero() {
		return catalog.NewSimulated(now)
	}
	base := c.OpenAIBaseURL
	if base == "" {
		base = catalog.OpenAIURL
	}
	return catalog.NewServer(catalog.Server{BaseURL: base, Model: c.OpenAIModel, Key: c.OpenAIKey, Price: c.OpenAIPrice}, now)
}
