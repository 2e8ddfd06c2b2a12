// Command protogen compiles .proto files and runs the Go plugins on them.
//
// Usage: protogen ROOT DIR...
//
// ROOT is the directory that imports are relative to; every DIR below it is
// one protobuf package and receives its generated Go. The compiler is a Go
// library and the plugins are tools of this module, so that the result
// depends on this module's go.mod only and needs no protoc.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

// plugins are the generators and their parameters, in the order they run.
var plugins = []struct{ name, parameter string }{
	{"protoc-gen-go", "paths=source_relative"},
	{"protoc-gen-go-grpc", "paths=source_relative"},
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: protogen ROOT DIR...")
		os.Exit(2)
	}
	if err := generate(context.Background(), os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

// generate compiles ROOT/DIR/*.proto for every dir and writes what the plugins
// answer below root.
func generate(ctx context.Context, root string, dirs []string) error {
	var names []string
	for _, dir := range dirs {
		found, err := filepath.Glob(filepath.Join(root, dir, "*.proto"))
		if err != nil {
			return fmt.Errorf("list %s: %w", dir, err)
		}
		if len(found) == 0 {
			return fmt.Errorf("no .proto file in %s", filepath.Join(root, dir))
		}
		for _, f := range found {
			names = append(names, path.Join(filepath.ToSlash(dir), filepath.Base(f)))
		}
	}
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{root}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(ctx, names...)
	if err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: names, ProtoFile: closure(files)}
	for _, p := range plugins {
		request.Parameter = proto.String(p.parameter)
		if err := run(ctx, p.name, request, root); err != nil {
			return err
		}
	}
	return nil
}

// closure lists the files and all they import, imports first, as plugins want
// them.
func closure(files linker.Files) []*descriptorpb.FileDescriptorProto {
	var out []*descriptorpb.FileDescriptorProto
	seen := map[string]bool{}
	var add func(protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		if seen[f.Path()] {
			return
		}
		seen[f.Path()] = true
		imports := f.Imports()
		for i := range imports.Len() {
			add(imports.Get(i).FileDescriptor)
		}
		out = append(out, protoutil.ProtoFromFileDescriptor(f))
	}
	for _, f := range files {
		add(f)
	}
	return out
}

// run gives the request to one plugin and writes the files of its answer.
func run(ctx context.Context, name string, request *pluginpb.CodeGeneratorRequest, root string) error {
	in, err := proto.MarshalOptions{Deterministic: true}.Marshal(request)
	if err != nil {
		return fmt.Errorf("encode request for %s: %w", name, err)
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "tool", name)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run %s: %w", name, err)
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out.Bytes(), &response); err != nil {
		return fmt.Errorf("decode answer of %s: %w", name, err)
	}
	if response.GetError() != "" {
		return fmt.Errorf("%s: %s", name, response.GetError())
	}
	for _, f := range response.GetFile() {
		if err := os.WriteFile(filepath.Join(root, filepath.FromSlash(f.GetName())), []byte(f.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
