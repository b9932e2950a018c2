// RUN: shale-opt %s --split-input-file --verify-diagnostics

func.func @grouped_matmul_c1(%x: tensor<5x3xf32>, %w: tensor<3x4x2xf32>, %ends: tensor<3xi32>) {
  // expected-error@+1 {{sizes do not agree: 'tensor<5x3xf32>' and 'tensor<3x4x2xf32>' with numbers 'tensor<3xi32>' to 'tensor<5x2xf32>'}}
  %y = nn.grouped_matmul %x, %w ends = %ends : (tensor<5x3xf32>, tensor<3x4x2xf32>, tensor<3xi32>) -> tensor<5x2xf32>
  return
}

// -----

func.func @grouped_matmul_c1_groups(%x: tensor<5x3xf32>, %w: tensor<3x3x2xf32>, %ends: tensor<2xi32>) {
  // expected-error@+1 {{sizes do not agree}}
  %y = nn.grouped_matmul %x, %w ends = %ends : (tensor<5x3xf32>, tensor<3x3x2xf32>, tensor<2xi32>) -> tensor<5x2xf32>
  return
}

// -----

func.func @grouped_matmul_c1_ends(%x: tensor<5x3xf32>, %w: tensor<3x3x2xf32>, %ends: tensor<1x3xi32>) {
  // expected-error@+1 {{needs rows, one or more matrices and a list of numbers}}
  %y = nn.grouped_matmul %x, %w ends = %ends : (tensor<5x3xf32>, tensor<3x3x2xf32>, tensor<1x3xi32>) -> tensor<5x2xf32>
  return
}

// -----

func.func @grouped_matmul_c2(%x: tensor<5x3xbf16>, %w: tensor<3x3x2xf32>, %ends: tensor<3xi32>) {
  // expected-error@+1 {{element types of operands must be equal}}
  %y = nn.grouped_matmul %x, %w ends = %ends : (tensor<5x3xbf16>, tensor<3x3x2xf32>, tensor<3xi32>) -> tensor<5x2xf32>
  return
}

// -----

func.func @grouped_matmul_grad_c1(%x: tensor<5x3xf32>, %g: tensor<4x2xf32>, %ends: tensor<3xi32>) {
  // expected-error@+1 {{sizes do not agree}}
  %y = nn.grouped_matmul_grad %x, %g ends = %ends : (tensor<5x3xf32>, tensor<4x2xf32>, tensor<3xi32>) -> tensor<3x3x2xf32>
  return
}

// -----

func.func @grouped_matmul_grad_c2(%x: tensor<5x3xf32>, %g: tensor<5x2xf32>, %ends: tensor<3xi32>) {
  // expected-error@+1 {{element types of operands must be equal}}
  %y = nn.grouped_matmul_grad %x, %g ends = %ends : (tensor<5x3xf32>, tensor<5x2xf32>, tensor<3xi32>) -> tensor<3x3x2xbf16>
  return
}

// -----

func.func @expert_matmul_c1(%x: tensor<5x3xf32>, %w: tensor<3x3x2xf32>, %experts: tensor<4xi32>) {
  // expected-error@+1 {{sizes do not agree: 'tensor<5x3xf32>' and 'tensor<3x3x2xf32>' with numbers 'tensor<4xi32>' to 'tensor<5x2xf32>'}}
  %y = nn.expert_matmul %x, %w experts = %experts : (tensor<5x3xf32>, tensor<3x3x2xf32>, tensor<4xi32>) -> tensor<5x2xf32>
  return
}

// -----

func.func @expert_matmul_c1_none(%x: tensor<5x3xf32>, %w: tensor<0x3x2xf32>, %experts: tensor<5xi32>) {
  // expected-error@+1 {{needs rows, one or more matrices and a list of numbers}}
  %y = nn.expert_matmul %x, %w experts = %experts : (tensor<5x3xf32>, tensor<0x3x2xf32>, tensor<5xi32>) -> tensor<5x2xf32>
  return
}

// -----

func.func @expert_matmul_c2(%x: tensor<5x3xbf16>, %w: tensor<3x3x2xf32>, %experts: tensor<5xi32>) {
  // expected-error@+1 {{element types of operands must be equal}}
  %y = nn.expert_matmul %x, %w experts = %experts : (tensor<5x3xbf16>, tensor<3x3x2xf32>, tensor<5xi32>) -> tensor<5x2xf32>
  return
}

// -----

func.func @expert_matmul_grad_c1(%x: tensor<5x3xf32>, %g: tensor<5x2xf32>, %experts: tensor<3xi32>) {
  // expected-error@+1 {{sizes do not agree}}
  %y = nn.expert_matmul_grad %x, %g experts = %experts : (tensor<5x3xf32>, tensor<5x2xf32>, tensor<3xi32>) -> tensor<3x3x2xf32>
  return
}

// -----

func.func @expert_matmul_grad_c2(%x: tensor<5x3xf32>, %g: tensor<5x2xf32>, %experts: tensor<5xi32>) {
  // expected-error@+1 {{element types of operands must be equal}}
  %y = nn.expert_matmul_grad %x, %g experts = %experts : (tensor<5x3xf32>, tensor<5x2xf32>, tensor<5xi32>) -> tensor<3x3x2xbf16>
  return
}

// -----

func.func @expert_matmul_c3(%x: tensor<5x3xf32>, %w: tensor<4x3x2xf32>, %experts: tensor<5xi32>) {
  // expected-error@+1 {{has 2 parts, which 5 rows and 4 matrices do not divide into}}
  %y = nn.expert_matmul %x, %w experts = %experts parts = 2 : (tensor<5x3xf32>, tensor<4x3x2xf32>, tensor<5xi32>) -> tensor<5x2xf32>
  return
}

// -----

func.func @expert_matmul_grad_c3(%x: tensor<6x3xf32>, %g: tensor<6x2xf32>, %experts: tensor<6xi32>) {
  // expected-error@+1 {{has 0 parts, which 6 rows and 3 matrices do not divide into}}
  %y = nn.expert_matmul_grad %x, %g experts = %experts parts = 0 : (tensor<6x3xf32>, tensor<6x2xf32>, tensor<6xi32>) -> tensor<3x3x2xf32>
  return
}

// -----

func.func @expert_matmul_c4(%x: tensor<5x3xf32>, %w: tensor<4x3x2xf32>, %experts: tensor<5xi32>) {
  // expected-error@+1 {{has 4 matrices, which cannot be some of 3}}
  %y = nn.expert_matmul %x, %w experts = %experts of = 3 : (tensor<5x3xf32>, tensor<4x3x2xf32>, tensor<5xi32>) -> tensor<5x2xf32>
  return
}

// -----

func.func @expert_matmul_grad_c4(%x: tensor<6x3xf32>, %g: tensor<6x2xf32>, %experts: tensor<6xi32>) {
  // expected-error@+1 {{has 3 matrices, which cannot be some of 2}}
  %y = nn.expert_matmul_grad %x, %g experts = %experts of = 2 : (tensor<6x3xf32>, tensor<6x2xf32>, tensor<6xi32>) -> tensor<3x3x2xf32>
  return
}

// -----

func.func @grouped_matmul_c3(%x: tensor<5x3xf32>, %w: tensor<4x3x2xf32>, %ends: tensor<4xi32>) {
  // expected-error@+1 {{has 4 matrices, which cannot be some of 3}}
  %y = nn.grouped_matmul %x, %w ends = %ends of = 3 : (tensor<5x3xf32>, tensor<4x3x2xf32>, tensor<4xi32>) -> tensor<5x2xf32>
  return
}

// -----

func.func @grouped_matmul_grad_c3(%x: tensor<6x3xf32>, %g: tensor<6x2xf32>, %ends: tensor<3xi32>) {
  // expected-error@+1 {{has 3 matrices, which cannot be some of 2}}
  %y = nn.grouped_matmul_grad %x, %g ends = %ends of = 2 : (tensor<6x3xf32>, tensor<6x2xf32>, tensor<3xi32>) -> tensor<3x3x2xf32>
  return
}
