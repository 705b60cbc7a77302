// Protoexport writes the third-party .proto files that Pawl's own files import, so that buf needs no registry.
//
// The sources are printed from the descriptors inside the Go modules, so their versions always follow go.mod.
// The target folder is ignored by git.
package main

import (
	"fmt"
	"os"

	"github.com/jhump/protoreflect/v2/protoprint"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	_ "buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	_ "github.com/grpc-ecosystem/grpc-gateway/v2/protoc-gen-openapiv2/options"
	_ "google.golang.org/genproto/googleapis/api/annotations"
)

// exported lists every third-party file that a file below proto/ may import.
func exported() []string {
	return []string{
		"buf/validate/validate.proto",
		"google/api/annotations.proto",
		"google/api/field_behavior.proto",
		"google/api/http.proto",
		"protoc-gen-openapiv2/options/annotations.proto",
		"protoc-gen-openapiv2/options/openapiv2.proto",
	}
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: protoexport FOLDER")
		os.Exit(2)
	}
	if err := export(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "protoexport:", err)
		os.Exit(1)
	}
}

func export(folder string) error {
	var files []protoreflect.FileDescriptor
	for _, path := range exported() {
		file, err := protoregistry.GlobalFiles.FindFileByPath(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		files = append(files, file)
	}
	return (&protoprint.Printer{}).PrintProtosToFileSystem(files, folder)
}
