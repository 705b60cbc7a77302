package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"pawl.internal/services/internal/pg"
	"pawl.internal/services/orchestrator/store/db"
)

// documentKind is what an idempotency key of a document stands for.
const documentKind = "document"

var (
	// ErrPipelineExists says that the version is stored already with another content.
	ErrPipelineExists = errors.New("the version is stored with another content")
	// ErrNoDocument says that there is no such document, or that it is another tenant's.
	ErrNoDocument = errors.New("there is no such document")
)

// PipelineVersion is a stored version of a pipeline.
type PipelineVersion struct {
	Name, Version string
	// Ordinal is the version's number: v10 is newer than v9.
	Ordinal int32
	Digest  Digest
	// Source is empty in lists.
	Source    string
	Steps     []string
	CreatedAt time.Time
	CreatedBy string
}

// CompileSource makes of a source what the store must know of the pipeline, or says why it is none.
func (s *Store) CompileSource(source string) (*Pipeline, error) { return s.pipelines.compile(source) }

// CreatePipeline stores a compiled pipeline and its source, unless its version is stored already: then ErrPipelineExists says
// that the content differs.
func (s *Store) CreatePipeline(
	ctx context.Context, tenant string, p *Pipeline, source, createdBy string,
) (stored PipelineVersion, created bool, err error) {
	var steps []string
	for _, step := range p.Interactive.Steps[:p.Interactive.Total] {
		steps = append(steps, step.Name)
	}
	inserted, err := s.read().InsertPipeline(ctx, db.InsertPipelineParams{
		Tenant: tenant, Name: p.Name, Version: p.Version, Digest: p.Digest[:], Source: source, Steps: steps, CreatedBy: createdBy,
	})
	if err != nil {
		return PipelineVersion{}, false, fmt.Errorf("store pipeline: %w", pg.Fault(err))
	}
	stored, err = s.FindPipeline(ctx, tenant, p.Name, p.Version)
	if err == nil && stored.Digest != p.Digest {
		err = ErrPipelineExists
	}
	return stored, inserted > 0, err
}

// FindPipeline returns a version, without a version the newest, or ErrNoPipeline.
func (s *Store) FindPipeline(ctx context.Context, tenant, name, version string) (PipelineVersion, error) {
	row, err := s.read().FindPipeline(ctx, db.FindPipelineParams{Tenant: tenant, Name: name, Version: version})
	return versionOf(db.ListPipelinesRow(row)), pipelineError(err)
}

// FindPipelineByDigest returns the version with the content, or ErrNoPipeline.
func (s *Store) FindPipelineByDigest(ctx context.Context, tenant string, digest Digest) (PipelineVersion, error) {
	row, err := s.read().FindPipelineByDigest(ctx, tenant, digest[:])
	return versionOf(db.ListPipelinesRow(row)), pipelineError(err)
}

func pipelineError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgx.ErrNoRows):
		return ErrNoPipeline
	default:
		return fmt.Errorf("read pipeline: %w", pg.Fault(err))
	}
}

func versionOf(row db.ListPipelinesRow) PipelineVersion {
	v := PipelineVersion{
		Name: row.Name, Version: row.Version, Ordinal: row.Ordinal, Source: row.Source, Steps: row.Steps,
		CreatedAt: row.CreatedAt, CreatedBy: row.CreatedBy,
	}
	copy(v.Digest[:], row.Digest)
	return v
}

// PipelinePlace is where a page of pipelines begins: behind this version.
type PipelinePlace struct {
	Name    string
	Ordinal int32
}

// ListPipelines returns a tenant's versions behind a place, by name and the newest first.
func (s *Store) ListPipelines(ctx context.Context, tenant string, after PipelinePlace, most int) ([]PipelineVersion, error) {
	rows, err := s.read().ListPipelines(ctx, db.ListPipelinesParams{
		Tenant: tenant, AfterName: after.Name, AfterOrdinal: after.Ordinal, Most: int32(most),
	})
	if err != nil {
		return nil, fmt.Errorf("list pipelines: %w", pg.Fault(err))
	}
	versions := make([]PipelineVersion, len(rows))
	for i, row := range rows {
		versions[i] = versionOf(row)
	}
	return versions, nil
}

// TextDocument is a stored text.
type TextDocument struct {
	ID                    uuid.UUID
	ExternalID, MediaType string
	SHA256                []byte
	Bytes                 int64
	CreatedAt             time.Time
	// Content is nil unless it was asked for.
	Content []byte
}

// CreateDocument stores a text under an idempotency key, unless the key has a document already; it returns the id of the
// key's document, and whether that is an earlier one. ErrKeyReused says that the key stands for something else.
func (s *Store) CreateDocument(
	ctx context.Context, tenant, key string, requestDigest []byte, d TextDocument,
) (id uuid.UUID, replayed bool, err error) {
	sum := sha256.Sum256(d.Content)
	packed := s.codec.Pack(d.Content)
	err = pg.InTx(ctx, s.pool, func(ctx context.Context, tx pgx.Tx) error {
		q := db.New(tx)
		taken, err := q.InsertKey(ctx, db.InsertKeyParams{
			Tenant: tenant, Key: key, RequestDigest: requestDigest, Kind: documentKind, ResourceID: d.ID, Kept: keyKept,
		})
		replayed = taken == 0
		if err != nil || replayed {
			return err
		}
		return q.InsertDocument(ctx, db.InsertDocumentParams{
			ID: d.ID, Tenant: tenant, ExternalID: d.ExternalID, MediaType: d.MediaType, Sha256: sum[:],
			Bytes: int64(len(d.Content)), Content: packed,
		})
	})
	if err != nil {
		return uuid.UUID{}, false, fmt.Errorf("store document: %w", err)
	}
	if replayed {
		id, err = s.resourceOf(ctx, documentKind, tenant, key, requestDigest)
		return id, err == nil, err
	}
	return d.ID, false, nil
}

// resourceOf returns what a used key stands for; ErrKeyReused if that is of another kind, or was asked for in other words.
func (s *Store) resourceOf(ctx context.Context, kind, tenant, key string, requestDigest []byte) (uuid.UUID, error) {
	row, err := s.read().ReadKey(ctx, tenant, key)
	if err != nil {
		return uuid.UUID{}, fmt.Errorf("read idempotency key: %w", pg.Fault(err))
	}
	if row.Kind != kind || !bytes.Equal(row.RequestDigest, requestDigest) {
		return uuid.UUID{}, ErrKeyReused
	}
	return row.ResourceID, nil
}

// ReadDocument returns a tenant's document, with its text if asked, or ErrNoDocument.
func (s *Store) ReadDocument(ctx context.Context, tenant string, id uuid.UUID, withContent bool) (*TextDocument, error) {
	row, err := s.read().ReadDocument(ctx, db.ReadDocumentParams{Tenant: tenant, ID: id, WithContent: withContent})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrNoDocument
	}
	if err != nil {
		return nil, fmt.Errorf("read document %s: %w", id, pg.Fault(err))
	}
	d := &TextDocument{
		ID: row.ID, ExternalID: row.ExternalID, MediaType: row.MediaType, SHA256: row.Sha256, Bytes: row.Bytes,
		CreatedAt: row.CreatedAt,
	}
	if withContent {
		d.Content, err = s.codec.Unpack(row.Content, int(row.Bytes))
	}
	return d, err
}
