package llmgateway

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"pawl.internal/services/internal/pg"
	"pawl.internal/services/llmgateway/catalog"
	"pawl.internal/services/llmgateway/price"
	"pawl.internal/services/llmgateway/recost"
	"pawl.internal/services/llmgateway/store"
)

// Recost computes what stored requests would cost by the prices of a models file, and corrects what is booked if it is to.
// Without a file the prices are those of the simulated provider. Now is when the prices must hold, and id names the
// correction.
func Recost(ctx context.Context, pool *pgxpool.Pool, modelsFile string, now time.Time, id uuid.UUID, o recost.Options) (lines []recost.Line, err error) {
	if err := pg.CheckVersion(ctx, pool, store.Schema()); err != nil {
		return nil, err
	}
	known, err := pricesOf(modelsFile, os.LookupEnv, now)
	if err != nil {
		return nil, err
	}
	s := store.New(pool, pool, 1)
	s.BookAs(id)
	rows := known.Prices
	if o.Apply {
		if rows, err = s.PutPrices(ctx, rows); err != nil {
			return nil, err
		}
	}
	o.Prices, o.ID = price.NewList(rows), id
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(running) }()
	defer func() {
		stop()
		if ended := <-ended; !errors.Is(ended, context.Canceled) {
			err = errors.Join(err, ended)
		}
	}()
	return recost.Run(ctx, s, o)
}

// pricesOf is the catalogue whose prices PricesOf lists.
func pricesOf(file string, lookup func(string) (string, bool), now time.Time) (*catalog.Catalog, error) {
	if file == "" {
		return catalog.NewSimulated(now)
	}
	return catalog.Load(file, func(name string) (string, bool) {
		if value, ok := lookup(name); ok && value != "" {
			return value, true
		}
		return "no key is needed", true
	}, now)
}
