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

var (
	// ErrPipelineExists says that the version is stored already with another content.
	ErrPipelineExists = errors.New("the version is stored with another content")
	// ErrNoDocument says that there is no such document, or that it is another tenant's.
	ErrNoDocument = errors.New("there is no such document")
)

// PipelineVersion is a stored version of a pipeline.
type PipelineVersion struct {
	Name, Version string
	Digest        Digest
	Source        string
	CreatedAt     time.Time
	CreatedBy     string
}

// CompileSource makes of a source what the store must know of the pipeline, or says why it is none.
func (s *Store) CompileSource(source string) (*Pipeline, error) { return s.pipelines.compile(source) }

// Compiled returns what the store knows of a stored version.
func (s *Store) Compiled(v PipelineVersion) (*Pipeline, error) {
	return s.pipelines.add(v.Digest, v.Source)
}

// CreatePipeline stores a version, unless it is stored already: then ErrPipelineExists says that the content differs.
func (s *Store) CreatePipeline(ctx context.Context, tenant string, v PipelineVersion) (stored PipelineVersion, created bool, err error) {
	inserted, err := s.read().InsertPipeline(ctx, db.InsertPipelineParams{
		Tenant: tenant, Name: v.Name, Version: v.Version, Digest: v.Digest[:], Source: v.Source, CreatedBy: v.CreatedBy,
	})
	if err != nil {
		return PipelineVersion{}, false, fmt.Errorf("store pipeline: %w", pg.Fault(err))
	}
	stored, err = s.FindPipeline(ctx, tenant, v.Name, v.Version)
	switch {
	case errors.Is(err, ErrNoPipeline): // the same content stands under another name or version
		return PipelineVersion{}, false, fmt.Errorf("pipeline %s:%s: its content is stored under another name", v.Name, v.Version)
	case err != nil:
		return PipelineVersion{}, false, err
	case stored.Digest != v.Digest:
		return stored, false, ErrPipelineExists
	}
	return stored, len(inserted) > 0, nil
}

// FindPipeline returns a version, without a version the newest, or ErrNoPipeline.
func (s *Store) FindPipeline(ctx context.Context, tenant, name, version string) (PipelineVersion, error) {
	row, err := s.read().FindPipeline(ctx, db.FindPipelineParams{Tenant: tenant, Name: name, Version: version})
	if err != nil {
		return PipelineVersion{}, pipelineError(err)
	}
	return versionOf(db.FindPipelineByDigestRow(row)), nil
}

// FindPipelineByDigest returns the version with the content, or ErrNoPipeline.
func (s *Store) FindPipelineByDigest(ctx context.Context, tenant string, digest Digest) (PipelineVersion, error) {
	row, err := s.read().FindPipelineByDigest(ctx, tenant, digest[:])
	if err != nil {
		return PipelineVersion{}, pipelineError(err)
	}
	return versionOf(row), nil
}

func pipelineError(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrNoPipeline
	}
	return fmt.Errorf("read pipeline: %w", pg.Fault(err))
}

func versionOf(row db.FindPipelineByDigestRow) PipelineVersion {
	return PipelineVersion{
		Name: row.Name, Version: row.Version, Digest: Digest(row.Digest), Source: row.Source, CreatedAt: row.CreatedAt,
		CreatedBy: row.CreatedBy,
	}
}

// PipelinePlace is where a page of pipelines begins: behind this version.
type PipelinePlace struct {
	Name    string
	Ordinal int32
}

// ListPipelines returns versions behind a place, by name and the newest first, and the place of the last.
func (s *Store) ListPipelines(ctx context.Context, tenant string, after PipelinePlace, most int) ([]PipelineVersion, PipelinePlace, error) {
	rows, err := s.read().ListPipelines(ctx, db.ListPipelinesParams{
		Tenant: tenant, AfterName: after.Name, AfterOrdinal: after.Ordinal, Most: int32(most),
	})
	if err != nil {
		return nil, PipelinePlace{}, fmt.Errorf("list pipelines: %w", pg.Fault(err))
	}
	versions := make([]PipelineVersion, len(rows))
	for i, row := range rows {
		versions[i] = PipelineVersion{
			Name: row.Name, Version: row.Version, Digest: Digest(row.Digest), Source: row.Source, CreatedAt: row.CreatedAt,
			CreatedBy: row.CreatedBy,
		}
		after = PipelinePlace{Name: row.Name, Ordinal: row.Ordinal}
	}
	return versions, after, nil
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
			Tenant: tenant, Key: key, RequestDigest: requestDigest, Kind: "document", ResourceID: d.ID, Kept: keyKept,
		})
		if err != nil || taken == 0 {
			replayed = taken == 0
			return err
		}
		id, replayed = d.ID, false
		return q.InsertDocument(ctx, db.InsertDocumentParams{
			ID: d.ID, Tenant: tenant, ExternalID: d.ExternalID, MediaType: d.MediaType, Sha256: sum[:],
			Bytes: int64(len(d.Content)), Content: packed,
		})
	})
	if err != nil {
		return uuid.UUID{}, false, fmt.Errorf("store document: %w", err)
	}
	if replayed {
		id, err = s.documentOf(ctx, tenant, key, requestDigest)
	}
	return id, replayed, err
}

// documentOf returns the document that a used key stands for.
func (s *Store) documentOf(ctx context.Context, tenant, key string, requestDigest []byte) (uuid.UUID, error) {
	row, err := s.read().ReadKey(ctx, tenant, key)
	if err != nil {
		return uuid.UUID{}, fmt.Errorf("read idempotency key: %w", pg.Fault(err))
	}
	if row.Kind != "document" || !bytes.Equal(row.RequestDigest, requestDigest) {
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
