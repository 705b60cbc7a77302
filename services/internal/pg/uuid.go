package pg

import (
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

// registerUUIDs makes uuid.UUID and lists of it travel as what they are: 16 bytes each. Left to itself, pgx writes each as
// text, through the interfaces of database/sql.
func registerUUIDs(types *pgtype.Map) {
	element := &pgtype.Type{Name: "uuid", OID: pgtype.UUIDOID, Codec: uuidCodec{}}
	types.RegisterType(element)
	types.RegisterType(&pgtype.Type{
		Name: "_uuid", OID: pgtype.UUIDArrayOID,
		Codec: uuidArrayCodec{&pgtype.ArrayCodec{ElementType: element}},
	})
}

// uuidCodec is pgx's own codec with a shorter way for uuid.UUID.
type uuidCodec struct{ pgtype.UUIDCodec }

func (c uuidCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.(uuid.UUID); ok && format == pgtype.BinaryFormatCode {
		return uuidEncode{}
	}
	return c.UUIDCodec.PlanEncode(m, oid, format, value)
}

func (c uuidCodec) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if _, ok := target.(*uuid.UUID); ok && format == pgtype.BinaryFormatCode {
		return uuidScan{}
	}
	return c.UUIDCodec.PlanScan(m, oid, format, target)
}

type uuidEncode struct{}

func (uuidEncode) Encode(value any, buf []byte) ([]byte, error) {
	id, ok := value.(uuid.UUID)
	if !ok {
		return nil, errNoPlan(value)
	}
	return append(buf, id[:]...), nil
}

type uuidScan struct{}

func (uuidScan) Scan(src []byte, target any) error {
	id, ok := target.(*uuid.UUID)
	if !ok {
		return errNoPlan(target)
	}
	return id.UnmarshalBinary(src)
}

// uuidArrayCodec is pgx's own codec for arrays with a shorter way for []uuid.UUID.
type uuidArrayCodec struct{ *pgtype.ArrayCodec }

func (c uuidArrayCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.([]uuid.UUID); ok && format == pgtype.BinaryFormatCode {
		return uuidsEncode{}
	}
	return c.ArrayCodec.PlanEncode(m, oid, format, value)
}

type uuidsEncode struct{}

// Encode writes the binary form of an array: dimensions, whether it has NULLs, the elements' type, length and lower bound,
// then each element behind its length.
func (uuidsEncode) Encode(value any, buf []byte) ([]byte, error) {
	ids, ok := value.([]uuid.UUID)
	if !ok {
		return nil, errNoPlan(value)
	}
	dimensions := uint32(1)
	if len(ids) == 0 {
		dimensions = 0
	}
	for _, word := range []uint32{dimensions, 0, pgtype.UUIDOID} {
		buf = binary.BigEndian.AppendUint32(buf, word)
	}
	if len(ids) == 0 {
		return buf, nil
	}
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(ids)))
	buf = binary.BigEndian.AppendUint32(buf, 1)
	for i := range ids {
		buf = binary.BigEndian.AppendUint32(buf, uint32(len(ids[i])))
		buf = append(buf, ids[i][:]...)
	}
	return buf, nil
}

// errNoPlan says that a plan was used for another type than it was made for.
func errNoPlan(value any) error { return fmt.Errorf("no way between uuid and %T", value) }
